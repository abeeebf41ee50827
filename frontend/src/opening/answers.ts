import type { Preview } from "../data/schema";
import type { Payload } from "../payload";
import type { Dropped } from "./dropped";

/** A page, models to choose one from, or why there is neither. */
export type Answer = { title: string; payload: Payload; more: boolean } | { models: ListedModel[] } | Refusal;

export interface Refusal {
  error: string;
  hint: string;
}

export interface ListedModel {
  name: string;
  source: string;
  kind: string;
  size_bytes: number;
  problem: string;
}

export interface Question {
  dropped: Dropped;
  /** Names of what was dropped, or of a model in it. */
  paths: readonly string[];
}

/** What is being done, and the share that is done where that is known. */
export type Say = (text: string, share?: number) => void;

/** What answers the page that opens models: Python in the browser, or a server. */
export interface Answerer {
  /** The first answer; `more` where others can be asked for. */
  ask: (question: Question) => Promise<Answer>;
  /** The answer for all chips. */
  askMore?: (question: Question) => Promise<Answer>;
  /** The answer with the time on the machine of the server. */
  profile?: (question: Question) => Promise<Answer>;
  /** What a model makes of inputs. */
  predict?: (question: Question, request: PredictionRequest) => Promise<Preview | Refusal>;
  /** Ends what is being done. */
  stop: () => void;
}

/** Values of inputs: what they are for, and files one after the other. */
export interface PredictionRequest {
  inputs: { input: string; name: string; size: number; typed: boolean }[];
  files: readonly Blob[];
  resize: string;
  rate: number;
}

/** The work was ended by a person. */
export class Stopped extends Error {}
