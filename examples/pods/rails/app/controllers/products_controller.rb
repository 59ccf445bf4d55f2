# A page that takes as long as its request says.
#
# Half of its CPU time, a statement of the model, sleep (another service), the other half.
# X-Worker of the answer is the process that served it.
class ProductsController < ApplicationController
  # Between two looks at the clock [s], of a thread that runs.
  STEP = 50e-6

  def index
    cpu, database, sleeping = %w[CPU Database Sleep].map { |part| request.headers["X-#{part}"].to_f }
    burn(cpu / 2)
    count = Product.taking(database).count(:id)
    sleep(sleeping) if sleeping.positive?
    burn(cpu / 2)
    response.headers["X-Worker"] = Process.pid.to_s
    render plain: "#{count} products\n"
  end

  private

  # Use CPU time; longer steps of the clock are times in which the thread did not run.
  def burn(seconds)
    before = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    while seconds.positive?
      now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      seconds -= now - before if now - before < STEP
      before = now
    end
  end
end
