Rails.application.routes.draw { root "products#index" }
