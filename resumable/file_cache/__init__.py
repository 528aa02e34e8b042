"""Parts of remote files on a local disk: the parts needed soonest, shared by the processes of a machine."""
