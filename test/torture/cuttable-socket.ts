/** A Unix socket that forwards to another socket until a test cuts the connection: then bytes are lost silently. */
import { unlinkSync } from "node:fs";
import { createConnection, createServer, type Socket } from "node:net";

export class CuttableSocket implements Disposable {
  readonly #path: string;
  readonly #server;
  readonly #sockets = new Set<Socket>();
  #isCut = false;

  constructor(path: string, target: string) {
    this.#path = path;
    this.#server = createServer((near) => {
      const far = createConnection(target);
      this.#join(near, far);
      this.#join(far, near);
    }).listen(path);
  }

  cut(): void {
    this.#isCut = true;
  }

  /** Forwards bytes again, and closes all earlier connections. */
  heal(): void {
    this.#isCut = false;
    for (const socket of this.#sockets) socket.destroy();
  }

  [Symbol.dispose](): void {
    this.heal();
    this.#server.close();
    try {
      unlinkSync(this.#path);
    } catch {
      // Closing the listener has removed its file.
    }
  }

  #join(from: Socket, to: Socket): void {
    this.#sockets.add(from);
    from.on("data", (data) => {
      if (!this.#isCut) to.write(data);
    });
    from.on("error", () => {});
    from.on("close", () => {
      this.#sockets.delete(from);
      to.destroy();
    });
  }
}
