// Search, loaded before the theme's scripts (mkdocs.yml). On pages opened as files a browser starts
// no worker: its script then runs in a hidden frame. And "--plan" is searched for as "plan": the
// search would take leading dashes as "without this word", and fail on two of them.
(() => {
  const QUERY = 2; // the theme's type of message
  const plain = (message) =>
    message.type === QUERY
      ? { ...message, data: message.data.replace(/(^|\s)-+(?=\w)/g, "$1") }
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
