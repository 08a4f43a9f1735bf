"""Send all samples of this server to Prometheus, Mimir or VictoriaMetrics by Prometheus' remote-write protocol."""
