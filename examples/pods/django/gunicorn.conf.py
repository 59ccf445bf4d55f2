# gunicorn reads the number of workers from WEB_CONCURRENCY.
worker_class = "sync"
timeout = 30
