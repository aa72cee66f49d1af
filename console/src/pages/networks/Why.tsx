// Why does a job reach a target, or not: the question, and the object that decides.
import { Autocomplete, Button, Select, TextInput } from '@mantine/core'
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import { Fact } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import { ServerText } from '../../ui/ServerText'
import { type Network, networkPath, parsePorts, type Reach } from './networks'

export function Why({ network }: { network: Network }) {
  const { t } = useTranslation('networks')
  const ports = network.ports ?? []
  const [source, setSource] = useState(ports[0]?.dns_name ?? '')
  const [target, setTarget] = useState('')
  const [protocol, setProtocol] = useState('tcp')
  const [typed, setTyped] = useState('')
  const port = protocol === 'icmp' ? null : (parsePorts(typed)?.first_port ?? null)
  const isPort = protocol === 'icmp' || (parsePorts(typed) !== null && !typed.includes('-'))
  const ask = useMutation({
    mutationFn: () => {
      const words = new URLSearchParams({ source: source.trim(), target: target.trim(), protocol })
      if (port !== null) words.set('port', String(port))
      return request<Reach>(`${networkPath(network, 'reach')}&${words}`)
    },
  })
  const found = ask.data
  const names = ports.map((each) => each.dns_name)
  return (
    <form
      className="form"
      onSubmit={(event) => {
        event.preventDefault()
        ask.mutate()
      }}
    >
      <p className="small sub">{t('whyText')}</p>
      <div className="row wrap fields-row">
        <Autocomplete className="third" label={t('fromJob')} data={names} value={source} onChange={setSource} />
        <Autocomplete
          className="third"
          label={t('target')}
          placeholder={t('targetHint')}
          data={names.filter((name) => name !== source)}
          value={target}
          onChange={setTarget}
        />
        <Select
          className="third"
          label={t('protocol')}
          allowDeselect={false}
          data={['tcp', 'udp', 'icmp']}
          value={protocol}
          onChange={(value) => setProtocol(value ?? protocol)}
        />
        <TextInput
          className="third"
          label={t('port')}
          placeholder={t('everyPort')}
          disabled={protocol === 'icmp'}
          value={typed}
          error={isPort ? undefined : t('notPort')}
          onChange={(event) => setTyped(event.currentTarget.value)}
        />
      </div>
      <div>
        <Button
          size="sm"
          type="submit"
          loading={ask.isPending}
          disabled={source.trim() === '' || target.trim() === '' || !isPort}
        >
          {t('askWhy')}
        </Button>
      </div>
      {ask.isError && <Refusal error={ask.error} />}
      {found && (
        <div role="status">
          <p className="strong">
            {t(found.is_reached === null ? 'unknownReach' : found.is_reached ? 'reached' : 'notReached', {
              source: found.source,
              target: found.target,
            })}
          </p>
          <dl className="facts left">
            <Fact name={t('decidedBy')}>
              <ServerText text={found.object} />
            </Fact>
          </dl>
          <p className="small">
            <ServerText text={found.reason} />
          </p>
          {found.hint && (
            <p className="small sub">
              <ServerText text={found.hint} />
            </p>
          )}
        </div>
      )}
    </form>
  )
}
