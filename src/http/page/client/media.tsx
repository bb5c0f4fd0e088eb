/** Shows a file as a picture, a sound or a video, with its media type, dimensions and size. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { mediaTypeOf, sizeText } from "./value.ts";

interface MediaProps {
  /** A data URI, or the URL of a picture. */
  readonly url: string;
  readonly label: string;
  /** Stands beside the facts about the file. */
  readonly children?: ComponentChildren;
}

/** Pictures with fewer pixels on their longer side are enlarged without smoothing. */
const SMALL_PIXELS = 160;

/** Needs a new `key` for another URL. */
export function Media({ url, label, children }: MediaProps) {
  const [[width, height], setSize] = useState<readonly [number, number]>([0, 0]);
  const type = mediaTypeOf(url);
  const facts = [type, width > 0 && `${width} × ${height}`, type && sizeText(url)].filter(Boolean).join(" · ");
  return (
    <figure>
      {(type === "" || type.startsWith("image/")) && (
        <img
          class={width > 0 && Math.max(width, height) < SMALL_PIXELS ? "small-picture" : ""}
          src={url}
          alt={label}
          onLoad={({ currentTarget: { naturalWidth, naturalHeight } }) => setSize([naturalWidth, naturalHeight])}
        />
      )}
      {/* biome-ignore lint/a11y/useMediaCaption: there are none for what a model made */}
      {type.startsWith("audio/") && <audio src={url} controls aria-label={label} />}
      {/* biome-ignore lint/a11y/useMediaCaption: there are none for what a model made */}
      {type.startsWith("video/") && <video src={url} controls aria-label={label} />}
      <figcaption>
        {facts} {children}
      </figcaption>
    </figure>
  );
}
