/** Whether the server is there: looked at now and then, and often while it is away. */
import { useCallback, useEffect, useState } from "preact/hooks";
import { Away, readReadiness } from "./api.ts";

const USUALLY_MS = 15_000;
const WHILE_AWAY_MS = 1_000;

export interface Connection {
  readonly isAway: boolean;
  readonly onAway: (isAway: boolean) => void;
}

export function useConnection(): Connection {
  const [isAway, setAway] = useState(false);
  const onAway = useCallback((away: boolean) => setAway(away), []);
  useEffect(() => {
    const look = () => {
      if (document.hidden) return;
      readReadiness().then(
        () => setAway(false),
        (error: unknown) => setAway(error instanceof Away),
      );
    };
    const timer = setInterval(look, isAway ? WHILE_AWAY_MS : USUALLY_MS);
    document.addEventListener("visibilitychange", look);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, [isAway]);
  return { isAway, onAway };
}
