import { FAULT_PLAN, type PlannedFault } from '../../faults/plan.ts';
import { GUARANTEE_TESTS } from '../../guarantees/plan.ts';
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

/** Returns the tests of each guarantee as docs/guarantees.md has them behind its text. */
export function formatGuaranteeTests(root: string): [guarantee: string, tests: string][] {
  const listFiles = createFileList(root);
  return Object.entries(GUARANTEE_TESTS).map(([guarantee, files]) => [guarantee, listFiles(files)]);
}

/** Creates the function that lists files, each with the mark of its tier. */
function createFileList(root: string): (files: readonly string[]) => string {
  const tiers = readTiers(root).filter(({ name }) => MARKED_TIERS.includes(name));
  const describeFile = (file: string): string => {
    if (!file.endsWith('.test.ts')) return `\`${file}\``;
    const tier = tiers.find((one) => filesOf(one).includes(file));
    return tier === undefined ? `\`${file}\`` : `\`${file}\` *${tier.name}*`;
  };
  return (files) => files.map(describeFile).join(', ');
}
