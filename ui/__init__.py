"""The dashboard: Streamlit pages that talk HTTP to the server and to nothing else.

`controlplane ui` and `controlplane up` start it through `ui.launch`, which provides command line and
environment. It calls the server through `ui.kit.client` and imports nothing of this project from outside of
this package.

    python -m streamlit run <this directory>/security_headers.py
        --server.address=127.0.0.1 --server.port=8501 --server.headless=true
        --server.allowedHosts=127.0.0.1 (and the other names of loopback)
        --server.enableCORS=true --server.enableXsrfProtection=true
        --server.enableStaticServing=false --server.enableAgentApi=false --server.fileWatcherType=none
        --browser.gatherUsageStats=false
        --client.showErrorDetails=none --client.showErrorLinks=false --client.toolbarMode=viewer

    CONTROLPLANE_URL           address of the server (http://127.0.0.1:8420)
    CONTROLPLANE_TOKEN         the token, or
    CONTROLPLANE_TOKEN_FILE    a file with the token, read at each request

Both themes are in `.streamlit/config.toml` beside the entry; Streamlit reads it in any working directory. For
work on the pages, `streamlit run ui/app.py --server.fileWatcherType=auto` reloads them.

Data flows from `kit.client` (JSON) through `kit.cached_reads` and the `frames` modules (tables) to `charts`,
`panels` and `widgets`, which `app_pages` puts in order. Text from others passes through `kit.markup`.
"""
