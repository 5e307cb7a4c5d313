import { randomUUID } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CommandStartedEvent } from 'mongodb';
import { classifyCommand, type Target } from './statement-target.ts';

const WRITE_INTERVAL_MS = 1_000;

/** A shape of a statement as a recorder writes it. */
export interface RecordedShape {
  shape: string;
  target: Target;
  count: number;
}

/** Statements that one process has sent. */
export interface StatementRecord {
  appName: string;
  shapes: RecordedShape[];
}

/**
 * Records which shapes of statements a process sends to MongoDB, for tests. Writes a file of its own in the folder, each second
 * if something has changed and when it is closed; a killed process loses its last second.
 */
export function createStatementRecorder(folder: string, appName: string) {
  const byShape = new Map<string, RecordedShape>();
  const path = join(folder, `${appName}-${randomUUID()}.json`);
  let hasChanged = false;
  mkdirSync(folder, { recursive: true });

  function write(): void {
    if (!hasChanged) return;
    hasChanged = false;
    const record: StatementRecord = { appName, shapes: [...byShape.values()] };
    writeFileSync(path, JSON.stringify(record));
  }
  const timer = setInterval(write, WRITE_INTERVAL_MS);
  timer.unref();
  return {
    /** Counts the statements of a command. */
    record({ commandName, command }: CommandStartedEvent): void {
      for (const { shape, target } of classifyCommand(commandName, command)) {
        const known = byShape.get(`${shape} ${target}`) ?? { shape, target, count: 0 };
        known.count += 1;
        byShape.set(`${shape} ${target}`, known);
        hasChanged = true;
      }
    },
    close(): void {
      clearInterval(timer);
      write();
    },
  };
}
