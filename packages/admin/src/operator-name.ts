import { z } from 'zod';

const MAX_NAME = 100;
// Control characters, and those that change the direction of the text around them.
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

/** Name of an operator, as other operators read it. */
export const operatorName = z
  .string()
  .trim()
  .max(MAX_NAME, `A name has at most ${MAX_NAME} characters.`)
  .refine((name) => !UNPRINTABLE.test(name), 'A name has no control characters.');
