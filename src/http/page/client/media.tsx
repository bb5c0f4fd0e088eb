/** Shows a file as a picture, a sound or a video, with its name, media type, dimensions and size. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { mediaTypeOf, sizeText } from "./value.ts";

interface MediaProps {
  readonly url: string;
  readonly label: string;
  readonly isPicture: boolean;
  /** A picture to lay over this picture. A slider sets how much of each is visible. */
  readonly before?: string | undefined;
  /** File name, if the user chose the file. */
  readonly name?: string | undefined;
  /** Name of the file, without its ending, that a link saves; undefined shows no link. */
  readonly saveAs?: string;
}

/** Pictures with fewer pixels on their longer side are enlarged without smoothing. */
const SMALL_PIXELS = 160;

/** Needs a new `key` for another URL. */
export function Media({ url, label, isPicture, before, name, saveAs }: MediaProps) {
  const [size, setSize] = useState<readonly [width: number, height: number]>();
  const [isBroken, setBroken] = useState(false);
  const type = mediaTypeOf(url) ?? "";
  const facts = [name, type, size?.join(" × "), type && sizeText(url)].filter(Boolean).join(" · ");
  const picture = (
    <img
      class={size && Math.max(...size) < SMALL_PIXELS ? "small-picture" : ""}
      src={url}
      alt={label}
      onLoad={({ currentTarget: { naturalWidth, naturalHeight } }) => setSize([naturalWidth, naturalHeight])}
      onError={() => setBroken(true)}
    />
  );
  return (
    <div class="media stack close">
      {isPicture && isBroken && <p class="notice bad">This file cannot be shown as an image.</p>}
      {isPicture && !isBroken && (before === undefined ? picture : <Compare {...{ picture, before, label }} />)}
      {/* biome-ignore lint/a11y/useMediaCaption: there are none for what a model made */}
      {type.startsWith("audio/") && <audio src={url} controls aria-label={label} />}
      {/* biome-ignore lint/a11y/useMediaCaption: there are none for what a model made */}
      {type.startsWith("video/") && <video src={url} controls aria-label={label} />}
      <p class="about">
        {facts}{" "}
        {saveAs !== undefined && (
          <a href={url} download={`${saveAs}.${extensionOf(type)}`}>
            Save
          </a>
        )}
      </p>
    </div>
  );
}

interface CompareProps {
  readonly picture: VNode;
  readonly before: string;
  readonly label: string;
}

function Compare({ picture, before, label }: CompareProps) {
  const [percent, setPercent] = useState(50);
  return (
    <figure class="compare">
      <div class="layers">
        {picture}
        <img src={before} alt="The input" style={{ clipPath: `inset(0 ${100 - percent}% 0 0)`, height: "100%" }} />
        <div class="divider" style={{ left: `${percent}%` }} />
        <input
          type="range"
          value={percent}
          aria-label={`How much of the input is seen over ${label}`}
          onInput={(event) => setPercent(event.currentTarget.valueAsNumber)}
        />
      </div>
      <figcaption class="row ends">
        <span>Input</span>
        <span>Output</span>
      </figcaption>
    </figure>
  );
}

export function extensionOf(mediaType: string): string {
  const [, kind = "bin"] = mediaType.split("/");
  const plain = kind.replace(/^x-|\+.*$/g, "");
  return { jpeg: "jpg", plain: "txt", "octet-stream": "bin", mpeg: "mp3" }[plain] ?? plain;
}
