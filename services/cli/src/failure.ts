import type { AdminError, AdminField } from '@carillon/admin/admin-error';
import type { ApiError } from '@carillon/core/api-error';

/** Exit codes of all commands. */
export const EXIT = { success: 0, failure: 1, usage: 2, unreachable: 3 } as const;

/** Expected failure of a command: one sentence for the operator and an exit code. */
export class Failure extends Error {
  readonly exitCode: number;
  /** JSON text for standard output with --json; empty when the command has already written its result. */
  readonly json: string;

  constructor(exitCode: number, message: string, json = JSON.stringify({ error: message })) {
    super(message);
    this.exitCode = exitCode;
    this.json = json;
  }
}

/** Creates the failure of a valid request that can't be carried out. */
export function commandFailed(message: string, json?: string): Failure {
  return new Failure(EXIT.failure, message, json);
}

/** Creates the failure of an invalid command line. */
export function usageError(message: string): Failure {
  return new Failure(EXIT.usage, message);
}

/** Creates the failure of a server that can't be reached or does not respond in time. */
export function serviceUnreachable(message: string): Failure {
  return new Failure(EXIT.unreachable, message);
}

const OPTION_OF: Record<AdminField, string> = {
  keyId: '--key-id',
  teamId: '--team-id',
  passphrase: '--passphrase-file',
  environment: '--environment',
  contact: '--contact',
  privateKey: '--private-key-file',
  replace: '--replace',
};

/** Converts an administrative error to a failure that names the options which resolve it. */
export function toAdminFailure({ code, message, fields }: AdminError): Failure {
  const options = fields.map((field) => OPTION_OF[field]).join(', ');
  const text = options === '' ? message : message.replace(/\.$/, ` (${options}).`);
  const isUnreachable = code === 'SANDBOX_UNREACHABLE' || code === 'REDIS_UNREACHABLE';
  return isUnreachable ? serviceUnreachable(text) : commandFailed(text);
}

/** Converts the rejection of a push; its JSON is what the API responds. */
export function toRejection({ code, message }: ApiError): Failure {
  return commandFailed(
    `The push is rejected: ${message} (${code})`,
    JSON.stringify({ code, error: message }),
  );
}

/** Returns true when an error means that a file does not exist. */
export function isFileNotFound(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOENT';
}
