/** Shows a file as a picture, a sound or a video, with its name, media type, dimensions and size. */
import { useState } from "preact/hooks";
import { extensionOf, mediaTypeOf, sizeText } from "./value.ts";

interface MediaProps {
  /** A data URI, or the URL of a picture. */
  readonly url: string;
  readonly label: string;
  /** A picture in the input. If it may show the same scene, it lies over this picture, and a slider sets how much of each is visible. */
  readonly before?: string | undefined;
  /** File name, if the user chose the file. */
  readonly name?: string;
  /** Name of the file, without its ending, that a link saves; undefined shows no link. */
  readonly saveAs?: string;
}

interface Loaded {
  readonly width: number;
  readonly height: number;
  /** The largest value of its colours, 1 to 255. */
  readonly most: number;
}

/** Pictures with fewer pixels on their longer side are enlarged without smoothing. */
const SMALL_PIXELS = 160;
/** A picture whose values are all smaller is a mask with the numbers of classes: it is brightened, and is no picture of the scene. */
const MASK_VALUES = 64;

/** Needs a new `key` for another URL. */
export function Media({ url, label, before, name, saveAs }: MediaProps) {
  const [picture, setPicture] = useState<Loaded>();
  const [input, setInput] = useState<Loaded>();
  const [percent, setPercent] = useState(50);
  const type = mediaTypeOf(url);
  const { width, height, most } = picture ?? { width: 0, height: 0, most: 255 };
  const isMask = most < MASK_VALUES;
  const isSame = !isMask && input !== undefined && Math.abs((width * input.height) / (height * input.width) - 1) < 0.02;
  const facts = [name, type, picture && `${width} × ${height}`, type && sizeText(url)].filter(Boolean).join(" · ");
  return (
    <div class="media stack close">
      {(type === "" || type.startsWith("image/")) && (
        <div class={isSame ? "compare" : ""}>
          <img
            class={picture && Math.max(width, height) < SMALL_PIXELS ? "small-picture" : ""}
            style={isMask ? { filter: `brightness(${255 / most})` } : {}}
            src={url}
            alt={label}
            onLoad={(event) => setPicture(loaded(event.currentTarget))}
          />
          {before !== undefined && (
            <img
              src={before}
              alt="The input"
              hidden={!isSame}
              style={{ clipPath: `inset(0 ${100 - percent}% 0 0)` }}
              onLoad={(event) => setInput(loaded(event.currentTarget))}
            />
          )}
          {isSame && <div class="divider" style={{ left: `${percent}%` }} />}
          {isSame && (
            <input
              type="range"
              value={percent}
              aria-label={`How much of the input is seen over ${label}`}
              onInput={(event) => setPercent(event.currentTarget.valueAsNumber)}
            />
          )}
        </div>
      )}
      {isSame && <p class="about">Input, to the left of the line, and output</p>}
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

function loaded(image: HTMLImageElement): Loaded {
  const { naturalWidth: width, naturalHeight: height, src } = image;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [128, 128];
  const context = canvas.getContext("2d");
  // The browser shows no page the pixels of other servers' pictures.
  if (context === null || !src.startsWith("data:")) return { width, height, most: 255 };
  context.imageSmoothingEnabled = false;
  context.drawImage(image, 0, 0, 128, 128);
  const { data } = context.getImageData(0, 0, 128, 128);
  return { width, height, most: data.reduce((most, value, i) => (i % 4 === 3 ? most : Math.max(most, value)), 1) };
}
