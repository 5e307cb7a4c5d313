import '@mantine/core/styles/ScrollArea.css';
import '@mantine/core/styles/Popover.css';
import '@mantine/core/styles/RadioCard.css';
import '@mantine/core/styles/RadioIndicator.css';
import '@mantine/core/styles/Radio.css';
import '@mantine/core/styles/Pill.css';
import '@mantine/core/styles/PillsInput.css';
import { Checkbox, MultiSelect, Radio, Stack } from '@mantine/core';
import type { Account, Operator, Role } from '../../api/types.ts';
import { ROLE_TEXTS } from '../../lib/roles.ts';

/** Role and accounts, as a form has them. */
export interface Access {
  role: Role;
  isAll: boolean;
  /** Ids of the accounts, if it is not for all. */
  chosen: string[];
}

/** Returns what the form has in the beginning: the access of an operator, or the least. */
export function toAccess({ role, accounts }: Partial<Pick<Operator, 'role' | 'accounts'>>): Access {
  const isAll = accounts === undefined || accounts === 'all';
  return { role: role ?? 'viewer', isAll, chosen: isAll ? [] : [...accounts] };
}

/** Returns the body of a request that grants the access. */
export function toGrant({ role, isAll, chosen }: Access): Pick<Operator, 'role' | 'accounts'> {
  return { role, accounts: isAll ? 'all' : chosen };
}

/** Returns true if an account can be used. */
export function isComplete({ isAll, chosen }: Access): boolean {
  return isAll || chosen.length > 0;
}

interface AccessFieldsProps {
  access: Access;
  roles: readonly Role[];
  accounts: readonly Account[];
  onChange: (access: Access) => void;
}

/** Shows the fields of role and accounts. */
export function AccessFields({ access, roles, accounts, onChange }: AccessFieldsProps) {
  const { role, isAll, chosen } = access;
  return (
    <>
      <Radio.Group
        label="Role"
        value={role}
        onChange={(value) =>
          onChange({ ...access, role: roles.find((known) => known === value) ?? 'viewer' })
        }
      >
        <Stack gap={6} mt={4}>
          {roles.map((value) => (
            <Radio key={value} value={value} label={value} description={ROLE_TEXTS[value]} />
          ))}
        </Stack>
      </Radio.Group>
      <Checkbox
        label="The whole installation"
        checked={isAll}
        onChange={({ currentTarget }) => onChange({ ...access, isAll: currentTarget.checked })}
      />
      {!isAll && (
        <MultiSelect
          label="Only these accounts"
          searchable
          data={accounts.map(({ id, name }) => ({ value: id, label: name }))}
          value={chosen}
          onChange={(ids) => onChange({ ...access, chosen: ids })}
        />
      )}
    </>
  );
}
