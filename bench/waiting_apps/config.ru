# What Puma and unicorn serve in the benchmarks of waiting: the same as app.py.

# Longer steps of the clock are times in which the thread did not run; why not its CPU clock: app.py.
STEP = 50e-6

def burn(seconds)
  before = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  while seconds.positive?
    now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    seconds -= now - before if now - before < STEP
    before = now
  end
end

def ask(seconds)
  require "pg"
  session = Thread.current[:session] ||= PG.connect(ENV.fetch("DATABASE_URL"))
  session.exec_params("SELECT pg_sleep($1)", [seconds])
end

run(lambda do |environ|
  cpu, database, sleeping = %w[CPU DATABASE SLEEP].map { |part| environ["HTTP_X_#{part}"].to_f }
  burn(cpu / 2)
  ask(database) if database.positive?
  sleep(sleeping) if sleeping.positive?
  burn(cpu / 2)
  [200, { "Content-Length" => "3", "X-Worker" => Process.pid.to_s }, ["ok\n"]]
end)
