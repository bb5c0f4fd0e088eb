/** A sound with its wave. */
import { useEffect, useState } from "preact/hooks";

const BARS = 160;

export function Sound({ url, label }: { readonly url: string; readonly label: string }) {
  const [wave, setWave] = useState<readonly number[]>([]);
  useEffect(() => {
    let isGone = false;
    waveOf(url).then(
      (found) => !isGone && setWave(found),
      // It is heard without.
      () => {},
    );
    return () => {
      isGone = true;
    };
  }, [url]);
  return (
    <div class="sound">
      {wave.length > 0 && (
        <svg
          class="wave"
          viewBox={`0 0 ${BARS} 2`}
          preserveAspectRatio="none"
          role="img"
          aria-label={`The wave of ${label}`}
        >
          <path d={wave.map((peak, i) => `M${i + 0.5} ${1 - peak}V${1 + peak}`).join("")} />
        </svg>
      )}
      {/* biome-ignore lint/a11y/useMediaCaption: there are none for what a model made */}
      <audio src={url} controls aria-label={label} />
    </div>
  );
}

/** Its loudest sample in each part of it; of a data URI alone, as others belong to other sites. */
async function waveOf(url: string): Promise<number[]> {
  if (!url.startsWith("data:")) return [];
  const bytes = Uint8Array.from(atob(url.slice(url.indexOf(",") + 1)), (letter) => letter.charCodeAt(0));
  const context = new OfflineAudioContext(1, 1, 22050);
  const samples = (await context.decodeAudioData(bytes.buffer)).getChannelData(0);
  const size = Math.max(1, Math.floor(samples.length / BARS));
  const peaks = Array.from({ length: BARS }, (_, i) =>
    samples.subarray(i * size, (i + 1) * size).reduce((peak, sample) => Math.max(peak, Math.abs(sample)), 0.01),
  );
  const loudest = Math.max(...peaks);
  return peaks.map((peak) => peak / loudest);
}
