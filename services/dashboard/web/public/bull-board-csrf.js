// Bull Board's pages know nothing of the console's sessions: their requests get the token here. Its library sends all of
// them by XMLHttpRequest, and the Content-Security-Policy allows none to another origin.
const token = document.querySelector('meta[name="csrf-token"]')?.content ?? '';
const { open } = XMLHttpRequest.prototype;
XMLHttpRequest.prototype.open = function (...request) {
  open.apply(this, request);
  this.setRequestHeader('x-csrf-token', token);
};
