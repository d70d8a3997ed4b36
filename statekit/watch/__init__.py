"""What operators see of a manager that serves: metrics, log records, a live view.

names       every metric: its name, kind, labels and meaning
tally       counts and durations, from events
shares      bytes by device, tier, model and bucket, each byte once
metrics     a Prometheus collector out of these
logs        events as records of the standard library's logging
picture     what the live view shows, as data and as JSON
taking      a picture of a manager
private     the folder, the socket and the peer that only this user can be
wire        messages between server and client, one line of JSON each
server      answers clients on a Unix socket, in one thread
client      asks a server, from another process

Nothing here is called by the manager: watchers read its books and subscribe to its events.
`names`, `picture`, `private`, `wire` and `client` load without torch and numpy.
"""
