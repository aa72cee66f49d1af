// The plan of a removal: which replicas end and what they serve, before anything happens.
import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { Answer } from '../../ui/Answer'
import { FormDialog } from '../../ui/FormDialog'
import { formatDuration, formatNumber } from '../../ui/format'
import { Fact } from '../../ui/Page'
import { State } from '../../ui/State'
import { fetchService, planRemoval, removeService, type Service } from './services'

export function RemoveDialog(props: { service: Service; onDone: () => void; onClose: () => void }) {
  const { t } = useTranslation('services')
  const { service } = props
  const found = useQuery({ queryKey: ['services', service.id], queryFn: () => fetchService(service.id) })
  const plan = found.data && planRemoval(found.data)
  return (
    <FormDialog
      title={t('removeTitle', { name: service.name })}
      confirm={t('removeNow', { count: plan?.replicas.length ?? 0 })}
      isReady={plan !== undefined}
      danger
      act={() => removeService(service.id)}
      onDone={props.onDone}
      onClose={props.onClose}
    >
      {() => (
        <Answer query={found}>
          {plan && (
            <dl className="facts left">
              <Fact name={t('removeOf')}>{`${service.tenant} / ${service.user}`}</Fact>
              <Fact name={t('planEnds')}>
                {plan.replicas.length === 0
                  ? t('nothing')
                  : plan.replicas.map((replica) => (
                      <span key={replica.number} className="row services-end">
                        {replica.job ?? t('replicaNumber', { number: replica.number })}
                        <State state={replica.state === 'wanted' ? 'waiting' : replica.state} />
                      </span>
                    ))}
              </Fact>
              <Fact name={t('underWay')}>{formatNumber(plan.requests)}</Fact>
              <Fact name={t('address')}>
                <code className="mono word">{service.path}</code>
              </Fact>
            </dl>
          )}
          <p className="small sub">{t('removeText', { time: formatDuration(service.rule.drain_seconds) })}</p>
        </Answer>
      )}
    </FormDialog>
  )
}
