# With Bundler, config/boot.rb and a Gemfile belong before this: here the gems are those installed.
require "rails"
require "active_record/railtie"
require "action_controller/railtie"

module Shop
  class Application < Rails::Application
    config.load_defaults 6.1
  end
end
