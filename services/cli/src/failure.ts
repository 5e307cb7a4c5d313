import { isNativeError } from 'node:util/types';

/** How every command tells a script how it went. */
export const EXIT = { done: 0, refused: 1, misused: 2, unreachable: 3 } as const;

/** An expected end other than success: a sentence for the reader and an exit code. */
export class Failure extends Error {
  readonly exitCode: number;
  /** JSON text for standard output under --json; empty when the command has answered already. */
  readonly answer: string;

  constructor(exitCode: number, sentence: string, answer = JSON.stringify({ error: sentence })) {
    super(sentence);
    this.exitCode = exitCode;
    this.answer = answer;
  }
}

/** The request was understood, and can't or won't be done. */
export function refused(sentence: string, answer?: string): Failure {
  return new Failure(EXIT.refused, sentence, answer);
}

/** The command line says something that isn't possible. */
export function misused(sentence: string): Failure {
  return new Failure(EXIT.misused, sentence);
}

/** A server isn't there, or doesn't answer in time. */
export function unreachable(sentence: string): Failure {
  return new Failure(EXIT.unreachable, sentence);
}

/** The innermost words of an error, without a full stop: Node puts "fetch failed" around what really happened. */
export function reasonOf(error: unknown): string {
  if (!isNativeError(error)) return String(error);
  if (isNativeError(error.cause)) return reasonOf(error.cause);
  if (error instanceof AggregateError && error.message === '') return reasonOf(error.errors[0]);
  return error.message.replace(/\.?(\n.*)?$/s, '');
}

/** Whether the system says that there is no such file. */
export function isAbsent(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOENT';
}
