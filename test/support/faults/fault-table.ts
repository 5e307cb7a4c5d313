import { FAULT_PLAN, type PlannedFault } from '../../faults/plan.ts';
import { filesOf, readTiers } from '../jest/tiers.ts';

/** Tiers that `npm test` leaves out; their files are marked. */
const MARKED_TIERS = ['long', 'faults', 'waiting', 'topologies'];

/**
 * Returns the rows of the plan as docs/guarantees.md has them.
 *
 * @param root the repository's folder
 */
export function formatFaultTable(root: string): string[] {
  const listFiles = createFileList(root);
  const formatRow = ({ fault, files, reason }: PlannedFault, index: number) =>
    `| ${index + 1} | ${fault} | ${reason ?? listFiles(files)} |`;
  return FAULT_PLAN.map(formatRow);
}

/** Creates the function that lists files, each with the mark of its tier. */
export function createFileList(root: string): (files: readonly string[]) => string {
  const tiers = readTiers(root).filter(({ name }) => MARKED_TIERS.includes(name));
  const describeFile = (file: string): string => {
    if (!file.endsWith('.test.ts')) return `\`${file}\``;
    const tier = tiers.find((one) => filesOf(one).includes(file));
    return tier === undefined ? `\`${file}\`` : `\`${file}\` *${tier.name}*`;
  };
  return (files) => files.map(describeFile).join(', ');
}
