/** Shows a file as a picture, a sound or a video, with its media type, dimensions and size. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { mediaTypeOf, sizeText } from "./value.ts";

interface MediaProps {
  /** A data URI, or the URL of a picture. */
  readonly url: string;
  readonly label: string;
  /** A picture in the input. If both have the same shape, it lies over this picture, and a slider sets how much of each is visible. */
  readonly before?: string | undefined;
  /** Stands beside the facts about the file. */
  readonly children?: ComponentChildren;
}

/** Pictures with fewer pixels on their longer side are enlarged without smoothing. */
const SMALL_PIXELS = 160;
/** Needs a new `key` for another URL. */
export function Media({ url, label, before, children }: MediaProps) {
  /** The pictures, once they are loaded. */
  const [picture, setPicture] = useState<HTMLImageElement>();
  const [input, setInput] = useState<HTMLImageElement>();
  const [percent, setPercent] = useState(50);
  const type = mediaTypeOf(url);
  const isSame = picture !== undefined && input !== undefined && haveSameShape(picture, input);
  const size = picture && `${picture.naturalWidth} × ${picture.naturalHeight}`;
  const facts = [type, size, type && sizeText(url)].filter(Boolean).join(" · ");
  return (
    <figure>
      {(type === "" || type.startsWith("image/")) && (
        <div class={isSame ? "compare" : ""} style={{ "--share": `${percent}%` }}>
          <img
            class={sizeClassOf(picture)}
            src={url}
            alt={label}
            onLoad={({ currentTarget }) => setPicture(currentTarget)}
          />
          {before !== undefined && (
            <img
              class={sizeClassOf(input)}
              src={before}
              alt="The input"
              hidden={!isSame}
              onLoad={({ currentTarget }) => setInput(currentTarget)}
            />
          )}
          {isSame && (
            <input
              type="range"
              value={percent}
              aria-label={`How much of the input is seen over ${label}`}
              onInput={({ currentTarget }) => setPercent(currentTarget.valueAsNumber)}
            />
          )}
        </div>
      )}
      {isSame && <small>The input is to the left of the line, the output to the right.</small>}
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

function sizeClassOf(picture: HTMLImageElement | undefined): string {
  return picture && Math.max(picture.naturalWidth, picture.naturalHeight) < SMALL_PIXELS ? "small-picture" : "";
}

function haveSameShape(picture: HTMLImageElement, input: HTMLImageElement): boolean {
  const ratio = (picture.naturalWidth * input.naturalHeight) / (picture.naturalHeight * input.naturalWidth);
  return Math.abs(ratio - 1) < 0.02;
}
