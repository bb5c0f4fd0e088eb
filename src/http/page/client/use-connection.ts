/**
 * Polls whether the server is ready, and whether it still has the version of the model that the page shows. Polls more often while the server is not
 * ready.
 */
import { useEffect, useState } from "preact/hooks";
import { type Model, type Persistence, readModel, readReadiness, Unavailable } from "./api.ts";

const USUALLY_MS = 15_000;
const WHILE_AWAY_MS = 1_000;

export interface Connection {
  /** Why the server is unavailable; undefined while it is ready. */
  readonly unavailable: Unavailable | undefined;
  readonly onUnavailable: Persistence["onUnavailable"];
  /** The model on the server, if it is another version than the page shows. */
  readonly newer: Model | undefined;
}

export function useConnection({ digest }: Model): Connection {
  const [unavailable, setUnavailable] = useState<Unavailable>();
  const [newer, setNewer] = useState<Model>();
  const isUnavailable = unavailable !== undefined;
  useEffect(() => {
    const look = async () => {
      if (document.hidden) return;
      try {
        await readReadiness();
        const model = await readModel();
        setNewer(model.digest === digest ? undefined : model);
        setUnavailable(undefined);
      } catch (error) {
        setUnavailable(error instanceof Unavailable ? error : undefined);
      }
    };
    look();
    const timer = setInterval(look, isUnavailable ? WHILE_AWAY_MS : USUALLY_MS);
    document.addEventListener("visibilitychange", look);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, [isUnavailable, digest]);
  return { unavailable, onUnavailable: setUnavailable, newer };
}
