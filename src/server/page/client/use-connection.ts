/** Whether the server is there, with the model that the page is of: looked at now and then, and often while it is away. */
import { useEffect, useState } from "preact/hooks";
import { Away, type Model, type Persistence, readModel, readReadiness } from "./api.ts";

const USUALLY_MS = 15_000;
const WHILE_AWAY_MS = 1_000;

export interface Connection {
  /** Why it cannot be used now. */
  readonly away: Away | undefined;
  readonly onAway: Persistence["onAway"];
  /** Another build that the server has now. */
  readonly newer: Model | undefined;
}

export function useConnection({ digest }: Model): Connection {
  const [away, setAway] = useState<Away>();
  const [newer, setNewer] = useState<Model>();
  const isAway = away !== undefined;
  useEffect(() => {
    const look = async () => {
      if (document.hidden) return;
      try {
        await readReadiness();
        const model = await readModel();
        setNewer(model.digest === digest ? undefined : model);
        setAway(undefined);
      } catch (error) {
        setAway(error instanceof Away ? error : undefined);
      }
    };
    look();
    const timer = setInterval(look, isAway ? WHILE_AWAY_MS : USUALLY_MS);
    document.addEventListener("visibilitychange", look);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, [isAway, digest]);
  return { away, onAway: setAway, newer };
}
