// Browsers start no workers for pages that are opened from a folder. There the search runs in a hidden frame instead, which
// looks like a worker to the page.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const home = new URL(url, location.href);
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.tabIndex = -1;
      document.body.appendChild(this.frame);
      this.ready = new Promise((resolve) => {
        const inside = this.frame.contentWindow, paper = inside.document;
        paper.open(); // a document of its own: an empty frame's may be replaced later
        paper.write("<!doctype html><body></body>");
        paper.close();
        window.addEventListener("message", (event) => {
          if (event.source !== inside) return;
          const message = new MessageEvent("message", { data: event.data });
          this.dispatchEvent(message);
          if (this.onmessage) this.onmessage(message);
        });
        const load = (address) => new Promise((done) => {
          const script = paper.createElement("script");
          script.src = new URL(address, home);
          script.onload = done;
          paper.body.appendChild(script);
        });
        inside.importScripts = (...addresses) =>
          addresses.reduce((before, address) => before.then(() => load(address)), Promise.resolve());
        inside.postMessage = (data) => {
          const event = new MessageEvent("message", { data, source: inside });
          window.dispatchEvent(event);
        };
        load(home).then(resolve);
      });
    }
    postMessage(data) {
      this.ready.then(() => {
        this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
      });
    }
    terminate() {
      this.frame.remove();
    }
  };
}
