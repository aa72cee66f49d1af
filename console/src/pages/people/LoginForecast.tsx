// What would this login get? The rules are asked; nothing changes.
import { Button, Select, TextInput } from '@mantine/core'
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { send } from '../../api/lists'
import type { components } from '../../api/schema'
import { UNKNOWN } from '../../ui/format'
import { Fact, Panel } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import { ServerText } from '../../ui/ServerText'
import { splitWords } from './people'

type Found = components['schemas']['LoginExplainOut']

export function LoginForecast({ providers }: { providers: readonly string[] }) {
  const { t } = useTranslation('people')
  const [groups, setGroups] = useState('')
  const [user, setUser] = useState('')
  const [provider, setProvider] = useState<string | null>(null)
  const ask = useMutation({
    mutationFn: () =>
      send<Found>('POST', '/api/v1/sso/explain', { groups: splitWords(groups), user: user.trim() || null, provider }),
  })
  const found = ask.data
  return (
    <Panel title={t('forecast')} hint={t('forecastHint')}>
      <form
        className="form"
        onSubmit={(event) => {
          event.preventDefault()
          ask.mutate()
        }}
      >
        <div className="row wrap fields-row">
          <TextInput
            className="third"
            label={t('groups')}
            description={t('groupsHint')}
            value={groups}
            onChange={(event) => setGroups(event.currentTarget.value)}
          />
          <TextInput
            className="third"
            label={t('loginName')}
            description={t('loginNameHint')}
            value={user}
            onChange={(event) => setUser(event.currentTarget.value)}
          />
          <Select
            className="third"
            label={t('providerField')}
            description={t('providerHint')}
            placeholder={t('anyProvider')}
            clearable
            data={[...providers]}
            value={provider}
            onChange={setProvider}
          />
        </div>
        <div>
          <Button size="sm" type="submit" loading={ask.isPending}>
            {t('ask')}
          </Button>
        </div>
        {ask.isError && <Refusal error={ask.error} />}
        {found && (
          <div role="status">
            <p className="strong">{found.rule === null ? t('refusedLogin') : t('byRule', { number: found.rule })}</p>
            {found.rule !== null && (
              <dl className="facts left">
                <Fact name={t('role')}>
                  {found.role === null ? UNKNOWN : t(`shell:role.${found.role}`, { defaultValue: found.role })}
                </Fact>
                <Fact name={t('tenant')}>{found.tenant ?? UNKNOWN}</Fact>
                <Fact name={t('project')}>{found.project ?? t('defaultProject')}</Fact>
                <Fact name={t('runAs')}>{found.run_as ?? UNKNOWN}</Fact>
              </dl>
            )}
            <p className="small sub">
              <ServerText text={found.text} />
            </p>
          </div>
        )}
      </form>
    </Panel>
  )
}
