// The content of the tab in Locust's page: ours, in a frame as high as what is in it.
customElements.define(
  "trilat-attribution",
  class extends HTMLElement {
    connectedCallback() {
      const frame = document.createElement("iframe");
      frame.src = "./trilat/";
      frame.title = "Attribution";
      Object.assign(frame.style, { border: "0", display: "block", height: "80vh", width: "100%" });
      frame.addEventListener("load", () => {
        const page = frame.contentDocument?.body;
        if (!page) return;
        this.watcher = new ResizeObserver(() => {
          frame.style.height = `${page.scrollHeight}px`;
        });
        this.watcher.observe(page);
      });
      this.replaceChildren(frame);
    }

    disconnectedCallback() {
      this.watcher?.disconnect();
      this.replaceChildren();
    }
  },
);
