"""Parts of remote files on a local disk: those needed soonest, shared by the processes of a machine."""
