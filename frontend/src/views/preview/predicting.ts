import { createContext } from "preact";
import type { Preview } from "../../data/schema";
import type { PredictionRequest, Refusal } from "../../opening/answers";

/** Gives inputs to the model of the page; null where nothing runs it. */
export const Predicting = createContext<((request: PredictionRequest) => Promise<Preview | Refusal>) | null>(null);
