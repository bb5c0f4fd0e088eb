/** A stopwatch that starts when it appears on the page. Screen readers ignore it. */
import { useEffect, useState } from "preact/hooks";

export function Clock() {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const began = performance.now();
    const timer = setInterval(() => setSeconds((performance.now() - began) / 1000), 100);
    return () => clearInterval(timer);
  }, []);
  return (
    <span class="took" aria-hidden="true">
      {seconds.toFixed(1)} s
    </span>
  );
}
