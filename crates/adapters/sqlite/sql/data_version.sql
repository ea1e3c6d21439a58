-- Changes with each commit of another connection.
PRAGMA data_version
