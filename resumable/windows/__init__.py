"""The motion of windowed shuffles."""
