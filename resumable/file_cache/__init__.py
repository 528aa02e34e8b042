"""Parts of remote files on a local disk, shared by the processes of a machine."""
