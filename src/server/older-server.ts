/** The older server of an upgrade, as the newer server sees it. */
import { version } from "../../package.json";
import { SconceError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import { starterPid } from "../machine/processes/start-again.ts";
import type { ServeConfig } from "./config.ts";
import {
  connectTo,
  controlPath,
  type HandoverLink,
  type HandoverMessage,
  networkOf,
  PROTOCOL,
} from "./control-socket.ts";
import { freePort } from "./http/listener.ts";
import type { Relative } from "./messages.ts";
import { type Offer, offerText } from "./offer.ts";

/** The functions of a server's HTTP processes that an upgrade calls. */
export interface UpgradedFronts {
  readonly sockets: readonly string[];
  /** Number of sockets with which each HTTP process listens on the port. */
  readonly socketsPerFront: number;
  /**
   * Makes the system send new connections only to some sockets of the port: `count` sockets from index `first` on.
   * @returns whether the system can do so
   */
  steer(sockets: { readonly first: number; readonly count: number }): Promise<boolean>;
  /** With true, closes each connection after its next answer; with false, keeps connections open again. */
  retire(isRetiring: boolean): void;
  /**
   * Closes the port in one HTTP process after another, from the last on, each when it has no connections.
   * @param onClosed gets the count of processes with an open port; with several, it is also called before the first one
   * closes
   */
  closePorts(onClosed: (open: number) => Promise<void>): Promise<void>;
  /** Sets the other server of the upgrade; undefined removes it. */
  setOther(other: Relative | undefined): void;
}

type Welcome = Extract<HandoverMessage, { kind: "welcome" }>;

export class OlderServer {
  readonly #link: HandoverLink;
  readonly relative: Relative;
  readonly #socketsPerFront: number;
  /** Name of the newer server in the stores of predictions. */
  readonly nextServer: string;
  readonly offer: Offer;

  private constructor(link: HandoverLink, { server, fronts, socketsPerFront, offer }: Welcome) {
    this.#link = link;
    this.offer = offer;
    this.relative = { sockets: fronts };
    this.#socketsPerFront = socketsPerFront;
    this.nextServer = String(Number(server) + 1);
  }

  /**
   * Finds the server that has the port, and asks it for an upgrade.
   * @param offer the models of this server
   * @returns undefined if the port is free
   * @throws SconceError `address_in_use` if another program has the port, or the server refuses an upgrade
   */
  static async find(config: ServeConfig, offer: Offer): Promise<OlderServer | undefined> {
    if (config.port === 0) return undefined;
    try {
      freePort(config);
      return undefined;
    } catch (error) {
      const older = await OlderServer.#connect(config, offer);
      if (older === undefined) throw error;
      log.info(
        `Port ${config.port} has a server with ${offerText(older.offer)}. This one starts beside it, and takes over with ${offerText(offer)} when it is ready`,
      );
      return older;
    }
  }

  static async #connect(
    place: Pick<ServeConfig, "host" | "port" | "replace">,
    offer: Offer,
  ): Promise<OlderServer | undefined> {
    const path = controlPath(place);
    const link = path === undefined ? undefined : await connectTo(path);
    if (link === undefined) return undefined;
    link.send({
      kind: "hello",
      protocol: PROTOCOL,
      version,
      pid: process.pid,
      network: networkOf(),
      offer,
      replaces: place.replace,
      starter: starterPid(),
    });
    const answer = await link.next();
    if (answer?.kind === "welcome") return new OlderServer(link, answer);
    link.end();
    if (answer?.kind !== "refused") return undefined;
    throw new SconceError("address_in_use", `port ${place.port} of ${place.host} is in use: ${answer.reason}`);
  }

  /** Resolves when the older server has closed the connection, as its last action, or its process has ended. */
  get ended(): Promise<void> {
    return this.#link.closed;
  }

  /** Tells the older server that the newer server does not start. */
  fail(reason: string): void {
    this.#link.send({ kind: "failed", reason });
    this.#link.end();
  }

  /** Takes over the open port. Resolves when the older server has closed its control socket, or has ended. */
  async takeOver(fronts: UpgradedFronts): Promise<void> {
    const count = portSockets(fronts);
    const steered = await fronts.steer({ first: this.portSockets, count });
    if (!steered)
      log.warn("The system does not steer connections: a few may be refused while the older server closes the port");
    this.#link.send({ kind: "opened", fronts: [...fronts.sockets], steered });
    for (let message = await this.#link.next(); message !== undefined; message = await this.#link.next()) {
      if (message.kind === "left") break;
    }
    void this.#follow(fronts);
  }

  async #follow(fronts: UpgradedFronts): Promise<void> {
    const count = portSockets(fronts);
    for (let message = await this.#link.next(); message !== undefined; message = await this.#link.next()) {
      if (message.kind !== "closed") continue;
      await fronts.steer(this.#socketsWhileClosing(message.open, count));
      this.#link.send({ kind: "steered" });
    }
    await fronts.steer({ first: 0, count });
  }

  /** Number of sockets with which the older server listens on the port. The newer server needs at least this number. */
  get portSockets(): number {
    return this.relative.sockets.length * this.#socketsPerFront;
  }

  /**
   * The sockets for new connections while `open` HTTP processes of the older server listen. The kernel moves the last
   * socket to the index of a closed one, so the older server's sockets may have any lower index. From `portSockets` on,
   * all sockets belong to the newer server. The last indices are left out, because the next process that closes the
   * port empties them.
   */
  #socketsWhileClosing(open: number, count: number): { first: number; count: number } {
    if (open === 0) return { first: 0, count };
    const first = this.portSockets;
    return { first, count: Math.max(1, (open - 1) * this.#socketsPerFront + count - first) };
  }
}

/** Number of a server's sockets that listen on the port. */
export function portSockets({ sockets, socketsPerFront }: UpgradedFronts): number {
  return sockets.length * socketsPerFront;
}
