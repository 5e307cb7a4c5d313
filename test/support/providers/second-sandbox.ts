import { until } from '../until.ts';
import { openSandbox, type Sandbox } from './sandbox.ts';
import { type SandboxSettings, startSandboxProcess } from './sandbox-process.ts';

const START_MS = 20_000;

/** Providers that no stack has started: another company's gateway. */
export interface SecondSandbox extends Sandbox {
  stop(): Promise<void>;
}

/** Starts a sandbox and waits until it responds. */
export async function startSecondSandbox(settings: SandboxSettings = {}): Promise<SecondSandbox> {
  const { url, stop } = await startSandboxProcess(settings);
  const sandbox = openSandbox(url);
  try {
    await until(() => sandbox.credentials(), { timeoutMs: START_MS, what: 'a second sandbox' });
    return { ...sandbox, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
