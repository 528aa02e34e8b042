"""Threads, processes and executors that compute for the loop."""

# The words for ending, in all modules here:
#
# | word      | meaning                                                                     |
# | --------- | --------------------------------------------------------------------------- |
# | `stop`    | let threads, or the processes of a pool, end; does not wait                 |
# | `close`   | stop, and wait for a bounded time; may be called again                      |
# | `release` | give the workers back to their `WorkerSource`, for the next epoch; unless   |
# |           | the source keeps workers, the workers are closed                            |
# | `put`     | leave idle workers in a `WorkerSource`                                      |
# | `cancel`  | give up an answer, and do not begin its work; the workers continue          |
# | `requeue` | give up an answer, and submit its items again                               |
