import type { SandboxFiles } from '../files/ensure-files.ts';
import type { RequestLog } from '../request-log/request-log.ts';
import type { FaultConfigs } from '../response/fault-config.ts';
import type { Scripts } from '../response/scripts.ts';

/** State that the three simulated providers share. */
export interface ProviderContext {
  files: SandboxFiles;
  requestLog: RequestLog;
  scripts: Scripts;
  faultConfigs: FaultConfigs;
  /** Host name that clients use. */
  host: string;
}
