// Leads to another page of the dashboard, see `widgets.follow_click`. As the browser's Back does: Streamlit then stops the
// timers of the page that is left. A rerun that one of them asked for would otherwise undo the change of the page.
export default function ({ data }) {
  history.pushState(null, "", data.href);
  window.dispatchEvent(new PopStateEvent("popstate"));
}
