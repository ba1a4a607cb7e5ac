// Browsers start no worker from a file, so a site that is opened from its folder would have no search. There the search's
// script runs in a frame of the page instead, behind what the theme uses of a Worker.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.answer(data);
      inside.importScripts = (...scripts) => Promise.all(scripts.map((one) => this.load(one)));
      this.ready = this.load(address);
    }
    load(address) {
      return new Promise((done, failed) => {
        const script = this.frame.contentDocument.createElement("script");
        script.src = new URL(address, location.href).href;
        script.onload = done;
        script.onerror = failed;
        this.frame.contentDocument.head.append(script);
      });
    }
    answer(data) {
      const message = new MessageEvent("message", { data });
      if (this.onmessage) this.onmessage(message);
      this.dispatchEvent(message);
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
