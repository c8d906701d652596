// Search runs in a worker, which browsers refuse to pages that are opened from a folder: there a hidden frame takes its place.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.loaded = new Promise((done) => { this.frame.onload = done })
      this.frame.srcdoc =
        "<script>self.receive = postMessage.bind(self); self.postMessage = (data) => parent.postMessage(data, '*')</script>" +
        `<script src="${encodeURI(decodeURI(new URL(url, location)))}"></script>`
      addEventListener("message", (event) => {
        if (event.source === this.frame.contentWindow) {
          this.dispatchEvent(new MessageEvent("message", { data: event.data }))
        }
      })
      document.body.append(this.frame)
    }
    postMessage(data) {
      this.loaded.then(() => this.frame.contentWindow.receive(data, "*"))
    }
    terminate() {
      this.frame.remove()
    }
  }
}
