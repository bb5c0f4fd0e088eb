/** A connection that carries one request at a time: HTTP/1.1 as far as the servers of this benchmark speak it, for little work. */
import type { Socket } from "bun";

export interface Answer {
  readonly status: number;
  readonly bytes: number;
}

const HEAD_END = Buffer.from("\r\n\r\n");

export class Connection {
  readonly #socket: Socket;
  readonly #onAnswer: (answer: Answer) => void;
  #received: Buffer = Buffer.alloc(0);
  /** Of the request, what the socket has not taken yet. */
  #unsent: Uint8Array = Buffer.alloc(0);

  private constructor(socket: Socket, onAnswer: (answer: Answer) => void) {
    this.#socket = socket;
    this.#onAnswer = onAnswer;
  }

  /** @param on.lost is called when the connection ends, whether a request was under way or not */
  static async open(
    { hostname, port }: { hostname: string; port: number },
    on: { answer: (answer: Answer) => void; lost: () => void },
  ): Promise<Connection> {
    let connection: Connection | undefined;
    const socket = await Bun.connect({
      hostname,
      port,
      socket: {
        data(_, chunk) {
          if (connection !== undefined) connection.#take(chunk);
        },
        drain() {
          if (connection !== undefined) connection.#write();
        },
        close: on.lost,
        error: on.lost,
      },
    });
    connection = new Connection(socket, on.answer);
    return connection;
  }

  send(request: Uint8Array): void {
    this.#unsent = request;
    this.#write();
  }

  close(): void {
    this.#socket.terminate();
  }

  #write(): void {
    if (this.#unsent.length > 0) this.#unsent = this.#unsent.subarray(this.#socket.write(this.#unsent));
  }

  #take(chunk: Buffer): void {
    this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
    const head = this.#received.indexOf(HEAD_END);
    if (head < 0) return;
    const text = this.#received.toString("latin1", 0, head);
    const length = /\r\ncontent-length: *(\d+)/i.exec(text)?.[1];
    if (length === undefined) throw new Error(`expected an answer with Content-Length, received ${text}`);
    const end = head + HEAD_END.length + Number(length);
    if (this.#received.length < end) return;
    this.#received = Buffer.from(this.#received.subarray(end));
    this.#onAnswer({ status: Number(text.slice(9, 12)), bytes: end });
  }
}
