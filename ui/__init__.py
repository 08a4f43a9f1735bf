"""The dashboard: Streamlit pages that speak HTTP to the server and to nothing else.

Started by `controlplane ui` and `controlplane up` through `ui.launch`, which gives the command line and the
environment; it calls the server through `ui.kit.client` and imports nothing of ours from outside this package.

    python -m streamlit run <this directory>/security_headers.py
        --server.address=127.0.0.1 --server.port=8501 --server.headless=true
        --server.allowedHosts=127.0.0.1 (and the other names of loopback)
        --server.enableCORS=true --server.enableXsrfProtection=true
        --server.enableStaticServing=false --server.enableAgentApi=false --server.fileWatcherType=none
        --browser.gatherUsageStats=false
        --client.showErrorDetails=none --client.showErrorLinks=false --client.toolbarMode=viewer

    CONTROLPLANE_URL           where the server is (http://127.0.0.1:8420)
    CONTROLPLANE_TOKEN         what to show it, or
    CONTROLPLANE_TOKEN_FILE    a file that holds it, read at each request

Both themes are in `.streamlit/config.toml` beside the entry; Streamlit reads it whatever the working directory.
While working on the pages, `streamlit run ui/app.py --server.fileWatcherType=auto` reloads them.

The way of a page: `app_pages` → `data` (cached reads) → `client` → JSON → `frames` (tables), `charts`,
`panels` and `widgets`. Text from others passes through `markup`.
"""
