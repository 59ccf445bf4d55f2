"""A shop on Kubernetes, for trying `mrtuner pods check`: Rails, an autoscaler, jobs."""

from __future__ import annotations

from typing import Final

EXAMPLE: Final = """\
# A Rails shop: a web tier that scales, background jobs, a nightly task. Made up.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 4
  template:
    spec:
      terminationGracePeriodSeconds: 60
      containers:
        - name: puma
          image: shop:2.7
          command: ["bundle", "exec", "puma"]
          env:
            - name: WEB_CONCURRENCY
              value: "4"
            - name: RAILS_MAX_THREADS
              value: "5"
            - name: DATABASE_URL
              value: postgres://shop@db.internal/shop
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: web
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: web
  minReplicas: 4
  maxReplicas: 6
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: jobs
spec:
  replicas: 2
  template:
    spec:
      containers:
        - name: sidekiq
          image: shop:2.7
          command: ["bundle", "exec", "sidekiq", "-c", "10"]
          env:
            - name: DATABASE_URL
              value: postgres://shop@db.internal/shop?pool=12
---
apiVersion: batch/v1
kind: CronJob
metadata:
  name: nightly
spec:
  schedule: "0 3 * * *"
  concurrencyPolicy: Forbid
  jobTemplate:
    spec:
      template:
        spec:
          containers:
            - name: rake
              image: shop:2.7
              command: ["bundle", "exec", "rake", "shop:nightly"]
              env:
                - name: DATABASE_URL
                  value: postgres://shop@db.internal/shop
"""
