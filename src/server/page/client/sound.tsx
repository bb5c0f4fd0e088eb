/** A player for a sound, with a picture of its waveform. */
import { useEffect, useState } from "preact/hooks";

const BARS = 160;

export function Sound({ url, label }: { readonly url: string; readonly label: string }) {
  const [wave, setWave] = useState<readonly number[]>([]);
  useEffect(() => {
    let isUnmounted = false;
    peaksOf(url).then(
      (found) => !isUnmounted && setWave(found),
      // The player works without the picture.
      () => {},
    );
    return () => {
      isUnmounted = true;
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
          aria-label={`The waveform of ${label}`}
        >
          <path d={wave.map((peak, i) => `M${i + 0.5} ${1 - peak}V${1 + peak}`).join("")} />
        </svg>
      )}
      {/* biome-ignore lint/a11y/useMediaCaption: there are none for what a model made */}
      <audio src={url} controls aria-label={label} />
    </div>
  );
}

/**
 * The highest peak in each of 160 equal parts of a sound, relative to the loudest. Empty for a sound that is no data URI, because a page may not read
 * sounds of other sites.
 */
async function peaksOf(url: string): Promise<number[]> {
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
