# ActiveRecord with the generated database.yml: SNIPPET HOST.
require "active_record"
require "yaml"

where = { "host" => ARGV[1], "database" => "postgres", "username" => "postgres" }
DATABASE = YAML.load_file(ARGV[0]).fetch("production").merge(where)

class App < ActiveRecord::Base
  self.abstract_class = true
end

class Late < ActiveRecord::Base
  self.abstract_class = true
end

# What a request does: take a connection, ask, give it back.
def request(model, query = "SELECT 1")
  model.connection_pool.with_connection { |connection| connection.execute(query) }
end

held = nil
App.establish_connection(DATABASE)
App.connection.execute("SELECT 1")
App.connection_pool.release_connection
Late.establish_connection(DATABASE)
holder = Queue.new
Thread.new do
  held = App.connection
  held.execute("SELECT 1")
  holder << :open
  sleep # its pool takes back what a dead thread holds
end
holder.pop
request(App)

CASES = {
  "connect" => -> { request(Late) },
  "idle" => -> { request(App) },
  "flight" => -> { held.execute("SELECT pg_sleep(60)") },
}

$stdout.sync = true
puts "ready"
$stdin.each_line(chomp: true) do |name|
  Thread.new do
    CASES.fetch(name).call
    puts "#{name} answered"
  rescue => error
    puts "#{name} failed #{error.class}: #{error.message.lines.first}"
  end
end
exit!
