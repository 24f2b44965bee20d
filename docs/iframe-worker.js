// Search, loaded before the theme's scripts (mkdocs.yml). On pages opened as files a browser starts
// no worker: its script then runs in a hidden frame. And queries are made plain: "--plan" becomes
// "plan", as leading dashes would mean "without this word"; "out of memory" becomes "memory", as
// the search takes every word for the beginning of any longer one ("of": offered, "out": output).
(() => {
  const QUERY = 2; // the theme's type of message
  const SMALL = /(^|\s)(a|an|and|at|by|for|from|how|in|is|it|my|of|on|or|out|the|to|with)(?=\s)/gi;
  const plain = (message) =>
    message.type === QUERY
      ? { ...message, data: message.data.replace(/(^|\s)-+(?=\w)/g, "$1").replace(SMALL, "$1") }
      : message;

  class FrameWorker extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = frame.contentDocument.createElement("script");
      script.src = address;
      this.ready = new Promise((resolve) => script.addEventListener("load", resolve));
      frame.contentDocument.body.append(script);
    }

    async postMessage(data) {
      await this.ready;
      this.inside.dispatchEvent(new MessageEvent("message", { data: plain(data) }));
    }
  }

  class SearchWorker extends Worker {
    postMessage(message) {
      super.postMessage(plain(message));
    }
  }

  window.Worker = location.protocol === "file:" ? FrameWorker : SearchWorker;
})();
