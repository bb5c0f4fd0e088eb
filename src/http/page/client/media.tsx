/** Shows a file as a picture, a sound or a video, with its media type, dimensions and size. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { mediaTypeOf, sizeText } from "./value.ts";

interface MediaProps {
  /** A data URI, or the URL of a picture. */
  readonly url: string;
  readonly label: string;
  /** A picture in the input. If both may show the same scene, it lies over this picture, and a slider sets how much of each is visible. */
  readonly before?: string | undefined;
  /** Stands beside the facts about the file. */
  readonly children?: ComponentChildren;
}

interface Picture {
  readonly width: number;
  readonly height: number;
  /** Whether all values are so small that they are the numbers of classes. A mask does not show the scene. */
  readonly isMask: boolean;
}

/** Pictures with fewer pixels on their longer side are enlarged without smoothing. */
const SMALL_PIXELS = 160;
/** The values of the pixels of a mask are smaller. */
const MASK_VALUES = 64;

/** Needs a new `key` for another URL. */
export function Media({ url, label, before, children }: MediaProps) {
  const [picture, setPicture] = useState<Picture>();
  const [input, setInput] = useState<Picture>();
  const [percent, setPercent] = useState(50);
  const type = mediaTypeOf(url);
  const isSame = picture !== undefined && input !== undefined && mayShowSameScene(picture, input);
  const size = picture && `${picture.width} × ${picture.height}`;
  const facts = [type, size, type && sizeText(url)].filter(Boolean).join(" · ");
  return (
    <figure>
      {(type === "" || type.startsWith("image/")) && (
        <div class={isSame ? "compare" : ""} style={{ "--share": `${percent}%` }}>
          <img
            class={sizeClassOf(picture)}
            src={url}
            alt={label}
            onLoad={({ currentTarget }) => setPicture(pictureIn(currentTarget))}
          />
          {before !== undefined && (
            <img
              class={sizeClassOf(input)}
              src={before}
              alt="The input"
              hidden={!isSame}
              onLoad={({ currentTarget }) => setInput(pictureIn(currentTarget))}
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

function sizeClassOf(picture: Picture | undefined): string {
  return picture && Math.max(picture.width, picture.height) < SMALL_PIXELS ? "small-picture" : "";
}

function mayShowSameScene(picture: Picture, input: Picture): boolean {
  const ratio = (picture.width * input.height) / (picture.height * input.width);
  return !picture.isMask && Math.abs(ratio - 1) < 0.02;
}

function pictureIn(image: HTMLImageElement): Picture {
  const { naturalWidth: width, naturalHeight: height, src } = image;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [128, 128];
  const context = canvas.getContext("2d");
  // The browser shows no page the pixels of other servers' pictures.
  if (context === null || !src.startsWith("data:")) return { width, height, isMask: false };
  context.imageSmoothingEnabled = false;
  context.drawImage(image, 0, 0, 128, 128);
  const { data } = context.getImageData(0, 0, 128, 128);
  return { width, height, isMask: data.every((value, i) => i % 4 === 3 || value < MASK_VALUES) };
}
