# What Puma and unicorn serve in the benchmarks of waiting: the same as app.py.

def burn(seconds)
  clock = Process::CLOCK_THREAD_CPUTIME_ID
  till = Process.clock_gettime(clock) + seconds
  nil while Process.clock_gettime(clock) < till
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
